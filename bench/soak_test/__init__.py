"""A long run with many agents under harm, and what must be true of its repository and its database afterwards."""
