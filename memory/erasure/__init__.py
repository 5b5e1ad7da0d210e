"""Forgetting for good: what is meant, taking it away, looking whether it is gone, and the signed receipt."""
