"""HTML pages without a script: the parts that the report and the browser share; `page.py` puts a report together."""
