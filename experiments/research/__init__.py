"""Measurements that only our own pages need, as scripts."""
