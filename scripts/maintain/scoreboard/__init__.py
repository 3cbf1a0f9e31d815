"""Other people's code, judged by the kit: `audit` runs it and stores what is said, `findings` shows it.

results/conformance/audit.toml   whose code, by which adapter, on which cases; what was found, in words
results/conformance/NAME.json    what the kit said of it, stored
"""
