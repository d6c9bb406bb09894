"""One module per kind of edit: an edit and the syntax of a document give splices."""
