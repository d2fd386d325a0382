// Actions in a dialog, where the browser can; each is a page of its own otherwise.
