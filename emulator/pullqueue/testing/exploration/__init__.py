"""Tests that try a scenario in many ways: `crash_test`, and `race_test` in every order of calls."""
