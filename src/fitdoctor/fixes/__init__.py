"""Source edits: what rules name becomes text, is shown as a diff, written so that it can be undone."""
