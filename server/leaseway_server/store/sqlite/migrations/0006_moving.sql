-- Where the queue is moved to or from (store/moved.py); '' where nobody moves it.

ALTER TABLE state ADD COLUMN move TEXT NOT NULL DEFAULT '';
