"""What a server records: requests, clients, mails, and what happened to it."""
