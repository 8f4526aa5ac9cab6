def median(numbers):
    """The one in the middle; of an even count, what lies between the two in the middle."""
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle]
