"""Files on their way in and out: lines, outputs, worker processes, a program's exit. No PyTorch."""
