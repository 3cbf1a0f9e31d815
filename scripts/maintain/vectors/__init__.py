"""The cases of the conformance kit, and how their vectors are made."""
