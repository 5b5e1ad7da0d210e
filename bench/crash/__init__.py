"""Proof of promise 3: a service under traffic, its processes killed at random, every acknowledged exchange counted."""
