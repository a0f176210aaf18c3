"""The live page of a board: a web server for eyes and a few hands. It never dispatches anything."""
