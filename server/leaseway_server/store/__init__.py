"""Stores: they lock, pick, insert and save rows; they know no rule of the protocol."""
