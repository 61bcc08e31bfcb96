"""The registry's records: tables, connections and migrations. Bytes of files live in `kernelworks_server.blobs`."""
