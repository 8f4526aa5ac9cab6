import sys
numbers = list(map(int, sys.stdin.read().split()))
seen = [[number] * 100_000_000 for number in numbers]
print(*sorted(row[0] for row in seen))
