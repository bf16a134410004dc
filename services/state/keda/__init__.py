"""KEDA's external scaler: tells KEDA, over gRPC, how many workers a job should have."""
