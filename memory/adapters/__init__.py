"""What the steps ask for, done with real things: each foreign library has one home here."""
