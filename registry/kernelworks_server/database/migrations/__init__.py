"""How the schema came to be what `kernelworks_server.database.tables` says, step by step."""
