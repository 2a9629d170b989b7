"""Runs all tests of this folder."""
import pathlib
import unittest

unittest.main(module=None, argv=["", "discover", "-s", str(pathlib.Path(__file__).parent), "-p", "*_test.py", "-v"])
