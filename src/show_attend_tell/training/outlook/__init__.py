"""What is known before a training: how long it takes, and whether its photos are news to the model it starts from."""
