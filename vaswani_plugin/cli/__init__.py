"""`vaswani <command>`: a few commands a module, one function each; `__main__` lists them."""
