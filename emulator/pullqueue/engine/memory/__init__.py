"""The store in memory: `store.MemoryStore`, and what one queue in memory consists of."""
