"""One codec per wire format, from a conversation to a request and from a stream to a reply."""
