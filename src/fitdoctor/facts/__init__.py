"""From a capture to frozen facts, each a pure memoised function."""
