"""Runs on several machines by Celery; needs the extra `celery`, and nothing else of this package imports it."""
