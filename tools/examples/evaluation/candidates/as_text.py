import sys
print(*sorted(sys.stdin.read().split()))
