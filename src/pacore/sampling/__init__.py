"""Where tokens come from: endpoints, the embedded engine, pools and scripts, and the limits on all."""
