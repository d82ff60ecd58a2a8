-- Where the tokens were moved to (store/moved.py): one row, or none.

CREATE TABLE move (mark TEXT NOT NULL) STRICT;
