"""Export and import a store as a file, and import the Java original."""
