"""Makes oneDNN a target: Intel's and Arm's library of primitives for neural nets."""
