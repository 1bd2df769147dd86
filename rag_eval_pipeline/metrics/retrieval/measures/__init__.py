"""The retrieval measures, a module a kind; every module's `FAMILIES` are found by themselves.

A new measure is a module here, or its families in one of these; `catalogue` lists what it finds, in the order of the
modules' names.
"""
