-- What continues the trace of a request that was refused, so that a retry stays in it; NULL: it was not traced.
ALTER TABLE headgate.rejected_requests ADD COLUMN IF NOT EXISTS traceparent text;
GRANT SELECT (traceparent) ON headgate.rejected_requests TO PUBLIC;
