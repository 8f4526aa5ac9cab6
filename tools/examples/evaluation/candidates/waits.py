import sys
numbers = [int(word) for word in sys.stdin.read().split()]
while numbers != sorted(numbers):
    pass
print(*numbers)
