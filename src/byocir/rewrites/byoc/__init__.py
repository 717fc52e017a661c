"""The hand-off, written once and run at both levels: match, assign, merge, outline."""
