"""gRPC expander client: asks an external expander (--expander=grpc) for the best options of a scale-up."""
