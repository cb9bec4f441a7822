"""Tests of the server, by the server's own client, by Google's, and by gcloud."""
