"""A run split over machines."""
