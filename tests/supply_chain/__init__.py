"""Supply chain: licences, bill of materials, known vulnerabilities of dependencies."""
