"""The fault suite: real processes, cut links, full disks, wrong clocks; each scenario with a verdict of its own."""
