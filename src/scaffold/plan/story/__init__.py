"""Stories: worked in small steps, which their agents may edit."""
