def diagnose(chosen, results, given, dtype):
    return results
