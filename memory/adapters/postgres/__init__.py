"""The durable store on Postgres 15+ with pgvector 0.8+."""
