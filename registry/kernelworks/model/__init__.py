"""What a published kernel is: frozen dataclasses and their JSON forms. Nothing here touches the world."""
