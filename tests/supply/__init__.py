"""What the project is made of: licences, bill of materials, what is known against a dependency."""
