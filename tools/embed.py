"""Prints a file as a C++ raw string literal: embed.py FILE."""
import sys

with open(sys.argv[1], encoding='utf-8') as file:
    print(f'R"embedded({file.read()})embedded"')
