"""Reading the coordinator's topics: up to where they end now (`reader`), or on and on in a thread (`follower`)."""
