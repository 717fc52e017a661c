"""What tests of targets and of byocir itself are made with."""
