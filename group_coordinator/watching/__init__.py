"""Consumer groups that are looked at: whoever coordinates them."""
