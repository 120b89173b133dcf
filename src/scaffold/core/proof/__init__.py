"""What has to hold before work lands, and what checks, gates, reviewers and audits say of it."""
