"""The management port: the control plane's pages."""
